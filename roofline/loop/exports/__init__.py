"""Files for other programs: tidy tables, a workbook with live cells, FOCUS rows, InferenceX results."""
