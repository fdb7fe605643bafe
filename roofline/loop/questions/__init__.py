"""Questions about a scenario: what if, where do two systems break even, what matters most, how to lay it out."""
