"""The chip's instructions: fields, text form, program frame, addresses, and the scalar core's arithmetic.

Google has not documented them. Field names, bit positions and scalar operations are those of the published
decoding (edgetpuxray's, as the project's hardware notes give it). Each module says what the programs of
edgetpu_compiler 16 ("compiled programs" below) confirm or correct. They hold for words of the scalar core.
Everything else is an operation of 1 to 17 words (`operations`), of whose bits only some have a known meaning
(`operation_fields`, `tensor_operation`).
"""
