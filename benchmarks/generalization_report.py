"""stub"""
def draw_ranks(content, path): pass
def render(content): return ""
def summary(lines, arguments): return {"n": len(lines)}
