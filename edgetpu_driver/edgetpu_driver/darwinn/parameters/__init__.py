"""Parameter blobs: how the compiler lays a layer's weights out for the chip, as codecs of one layer each.

A weight byte is the int8 weight with its sign bit flipped, so the weight 0 is stored as 0x80. Weights lie in
cells of four input channels per output channel; what fills a cell up is 0x80, what fills up to the next 64
bytes is 0x00. All of it was established by comparing graphs with what edgetpu_compiler 16 made of them.
"""
