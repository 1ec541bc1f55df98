model = dict(
    type="A",
    # a comment
    layers=[1,
            2])
words = """first
second"""
joined = 1 + \
    2
if True:
    inner = 1
