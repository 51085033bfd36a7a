"""Replacing the weights of a model, and the layouts of weights in its parameters.

A WeightRequest carries real weights. Its WeightQuantiser quantises them for a WeightTensor, an engine writes
them at the tensor's WeightLocation in the parameters, and a WeightResult reports the quantisation error. A
ParameterLayout converts all weights of a model to its parameter bytes and back.
"""
