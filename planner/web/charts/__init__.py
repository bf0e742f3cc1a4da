"""Charts as plain numbers: each file turns an answer into positions that a template draws as SVG.

Horizontal positions are percentages of the drawing's width and vertical ones are pixels, so that type keeps its size
at any width. Nothing here is a colour: templates give classes, the style sheet gives colours.
"""
