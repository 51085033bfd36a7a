"""The chip's instructions: fields, text form, program frame, addresses, and the scalar core's arithmetic.

Google has not documented them. Field names, bit positions and scalar operations are those of the published
decoding (edgetpuxray's, as given in the project's hardware notes). They apply to words of the scalar core.
Each module states what the programs of edgetpu_compiler 16 ("compiled programs" below) confirm or correct.
All other instructions are operations of 1 to 17 words (`operations`); only some of their bits are known
(`operation_fields`, `tensor_operation`).
"""
