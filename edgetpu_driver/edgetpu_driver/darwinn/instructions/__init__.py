"""The chip's instructions: fields, text form, program frame, addresses, and the scalar core's arithmetic.

Google has not documented them. Field names, bit positions and scalar operations are those of the published
decoding (edgetpuxray's, as the project's hardware notes give it). Each module says what the programs of
edgetpu_compiler 16 ("compiled programs" below) confirm or correct. Vector and DMA instructions span several
words and are not understood: the fields of a word are meaningful only in the first word of an instruction.
"""
