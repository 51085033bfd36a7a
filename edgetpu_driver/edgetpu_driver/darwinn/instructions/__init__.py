"""The chip's instructions: fields, text form, program frame, addresses, and the scalar core's arithmetic.

Google has not documented them. Field names, places and scalar operations are those of the published decoding
(edgetpuxray's, as the project's hardware notes give it); each module says what programs of edgetpu_compiler
16 confirm or correct, "compiled programs" below. What vector and DMA instructions do is not known, and they
span several words: the fields of a word mean something only where it starts an instruction.
"""
