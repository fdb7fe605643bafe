"""Matrix products in registers, shared by every operator that is made of them.

``tiles``: the innermost loops as LLVM code. ``panels``: many rows, packed so that weights are read once.
``few_rows``: so few rows that reading the weights is all the work. ``operands``: the element types of both.
``triton_tile`` and ``triton_configs``: the same on GPUs. Weights are ``[out, in]`` throughout, as linear layers store
them.
"""
