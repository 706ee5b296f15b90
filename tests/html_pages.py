"""Pages as the tests of reports read them."""

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "path", "circle", "rect"}
HOSTILE = "</script><script>alert(1)</script>\"'&{{ data }}$&\\1<!--"


class Page(HTMLParser):
    """Parses a page and asserts that every element is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.ids, self.text, self.inside = [], [], [], [], {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.inside.setdefault(self.open[-1] if self.open else "", []).append(data)
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]
