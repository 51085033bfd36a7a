"""Parameter blobs: the layouts of a layer's weights for the chip, one codec per kind of layer.

A weight byte is the int8 weight with its sign bit flipped, so the weight 0 is stored as 0x80. Weights are
stored in cells of four input channels per output channel. Padding within a cell is 0x80; padding to the next
64 bytes is 0x00. Source: comparison of graphs with the output of edgetpu_compiler 16.
"""
