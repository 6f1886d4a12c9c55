"""The live loop's pure core: from what the engines report to one decision. No I/O, no clock, no dice."""
