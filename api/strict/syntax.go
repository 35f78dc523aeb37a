package strict

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// syntax reports an error of the YAML parser, with the line from its message.
func (r *Findings) syntax(err error, data []byte) {
	line, text := split(err)
	p := Position{within(line, data), 1} // the parser names no line if the error is in the first
	if m := regexp.MustCompile(`^unknown anchor '(.*)' referenced`).FindStringSubmatch(text); m != nil && line == 0 {
		before, _, _ := bytes.Cut(data, []byte("*"+m[1]))
		p.Line += bytes.Count(before, []byte("\n"))
	}
	lines := bytes.Split(data, []byte("\n"))
	if at := p.Line - 1; strings.Contains(text, "cannot start any token") && at < len(lines) && bytes.HasPrefix(bytes.TrimLeft(lines[at], " "), []byte("\t")) {
		r.AddAt(p, "", "is not valid YAML: the line is indented with a tab", "YAML is indented with spaces, not with tabs")
		return
	}
	problem, hint := plainly(text)
	r.AddAt(p, "", "is not valid YAML: "+problem, hint)
}

// split returns the line of an error of the YAML parser, 0 if it names none, and the rest of its text.
func split(err error) (line int, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	m := regexp.MustCompile(`^line (\d{1,7}): `).FindStringSubmatch(text)
	if m == nil {
		return 0, text
	}
	line, _ = strconv.Atoi(m[1]) // a few digits by the pattern
	text = text[len(m[0]):]
	if isParserError(text) {
		line++
	}
	return line, text
}

// within returns a line of the text: the parser may name the one after the last.
func within(line int, text []byte) int {
	return max(min(line, 1+bytes.Count(bytes.TrimRight(text, "\r\n"), []byte("\n"))), 1)
}

// NotYAML describes, in plain words, the mistake in a text that Documents could not parse.
func NotYAML(err error, text string) string {
	line, said := split(err)
	problem, _ := plainly(said)
	return "is not valid YAML: line " + strconv.Itoa(within(line, []byte(text))) + ": " + problem
}

// inWords translates the YAML parser's messages, by their beginnings.
var inWords = []struct{ begin, problem, hint string }{
	{"mapping values are not allowed", `a second ": " on one line, or a line that is indented too far`, `put a text that contains ": " in quotes, and indent the keys of one mapping alike`},
	{"did not find expected key", "the line does not fit the lines above it", "indent the keys of one mapping alike; text after a closing quote is not read, either"},
	{"did not find expected '-' indicator", `an item of the list above should begin here with "- "`, "indent the items of one list alike"},
	{"did not find expected node content", "a value is missing, or a bracket is not closed", "put a text that begins with { [ ] } , & * ! | > % @ or ` in quotes"},
	{"did not find expected ',' or '}'", "a { is not closed, or a comma is missing between two keys", "close it with }"},
	{"did not find expected ',' or ']'", "a [ is not closed, or a comma is missing between two items", "close it with ]"},
	{"found unexpected end of stream", "a quote is not closed", "put a quote at the end of the text"},
	{"found unexpected document indicator", "a quote is not closed before the document ends", "put a quote at the end of the text"},
	{"could not find expected ':'", "a line is neither \"key: value\" nor an item of a list", "is the colon missing, or the space after it?"},
	{"block sequence entries are not allowed", "a list begins on the line of its key", `write each item on a line of its own, after "- "`},
	{"found character that cannot start any token", "a value begins with a character that has another meaning in YAML", "put it in quotes"},
	{"found a tab character", "the line is indented with a tab", "YAML is indented with spaces, not with tabs"},
	{"unknown anchor", "a value that begins with * refers to a place that is not in the document", "put a text that begins with * in quotes"},
	{"did not find expected alphabetic or numeric character", "a value begins with & or *, which have another meaning in YAML", "put it in quotes"},
	{"found unknown escape character", "a backslash in double quotes begins a sequence that YAML does not know", "use single quotes, or write the backslash twice"},
	{"did not find expected hexdecimal number", "a backslash in double quotes begins a sequence that YAML does not know", "use single quotes, or write the backslash twice"},
	{"did not find expected <document start>", "the document ends above this line", "indent the keys of one mapping alike"},
	{"could not find expected directive name", "a line begins with %, which has another meaning in YAML", "put it in quotes"},
	{"found unknown directive", "a line begins with %, which has another meaning in YAML", "put it in quotes"},
	{"found incompatible YAML document", "the line %YAML names a version that is not read", "remove the line"},
	{"found undefined tag handle", "a value begins with !, which has another meaning in YAML", "put it in quotes"},
}

// plainly returns what a message of the YAML parser means. A message without a translation stays as it is.
func plainly(text string) (problem, hint string) {
	for _, w := range inWords {
		if strings.HasPrefix(text, w.begin) {
			return w.problem, w.hint
		}
	}
	return text, ""
}

// isParserError reports whether the message comes from the parser proper, which counts lines from 0, rather than from the scanner, which counts from
// 1.
func isParserError(text string) bool {
	for _, s := range []string{"did not find expected <", "did not find expected node content", "did not find expected '-' indicator",
		"did not find expected key", "did not find expected ','", "found undefined tag handle", "found duplicate %", "found incompatible YAML document"} {
		if strings.HasPrefix(text, s) {
			return true
		}
	}
	return false
}
