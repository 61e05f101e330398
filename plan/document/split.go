package document

import "bytes"

// Part is one document of a file with several.
type Part struct {
	// Text is the document's. Dashes before it are blank.
	Text []byte
	// Begin is the line of the file that Text begins with, and Line the first one with
	// something in it; 0 for a document that is empty. Both count from 1.
	Begin, Line int
}

// Split takes the documents of a YAML file apart. Empty ones count, as readers
// count them, but what comes before the first separator does only when it is
// something. Three dashes separate at the start of a line, where no text of a
// document can have them.
func Split(src []byte) []Part {
	docs := []Part{{Begin: 1}}
	for n, text := range bytes.SplitAfter(src, []byte("\n")) {
		bare := bytes.TrimRight(text, " \t\r\n")
		rest, dashes := bytes.CutPrefix(text, []byte("---"))
		if dashes && (len(bare) == 3 || rest[0] == ' ' || rest[0] == '\t') || string(bare) == "..." {
			docs = append(docs, Part{Begin: n + 1})
			text = append([]byte("   "), text[3:]...)
			bare = bytes.TrimSpace(text)
		}
		d := &docs[len(docs)-1]
		blank := len(bytes.TrimSpace(bare)) == 0 || bytes.TrimSpace(bare)[0] == '#' || d.Line == 0 && bare[0] == '%'
		switch {
		case blank && d.Line == 0 && len(bytes.TrimSpace(bare)) > 0 && bytes.TrimSpace(bare)[0] == '#':
		case blank && d.Line == 0:
			text = []byte("\n") // directives too: the parser wants dashes after them
		case d.Line == 0:
			d.Line = n + 1
		}
		d.Text = append(d.Text, text...)
	}
	if docs[0].Line == 0 {
		docs = docs[1:]
	}
	return docs
}
