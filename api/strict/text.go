package strict

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// formats are the first bytes of files that are no text.
var formats = []struct{ begin, name string }{
	{"\x1f\x8b", "a gzip archive"}, {"PK\x03\x04", "a zip archive"}, {"\xfd7zXZ\x00", "an xz archive"}, {"\x28\xb5\x2f\xfd", "a zstd archive"}, {"BZh", "a bzip2 archive"},
	{"%PDF-", "a PDF file"}, {"\x7fELF", "a program"}, {"\x89PNG", "a picture"}, {"\xff\xd8\xff", "a picture"}, {"SQLite format 3\x00", "a SQLite database"},
	{"age-encryption.org/", "a file encrypted with age"},
}

// NotText reports why data is not text in UTF-8, and where; the problem is empty if it is.
func NotText(data []byte) (at Position, problem, hint string) {
	start := Position{1, 1}
	for _, f := range formats {
		if bytes.HasPrefix(data, []byte(f.begin)) {
			return start, "is " + f.name + ", not a document", "is this the right file?"
		}
	}
	const utf16 = "save the file as UTF-8: iconv -f UTF-16 -t UTF-8 FILE"
	switch nul := bytes.Count(data, []byte{0}); {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return start, "is text in UTF-16", utf16
	case nul > 0 && nul*5 >= len(data)*2:
		return start, "is text in UTF-16 without its mark, or no text", "save the file as UTF-8"
	}
	at = start
	for rest := data; len(rest) > 0; {
		c, n := utf8.DecodeRune(rest)
		switch {
		case c == utf8.RuneError && n == 1:
			return at, fmt.Sprintf("the byte %#02x is not UTF-8", rest[0]), "save the file as UTF-8; from Latin-1: iconv -f ISO-8859-1 -t UTF-8 FILE"
		case c == '\n':
			at = Position{at.Line + 1, 0}
		case unicode.IsControl(c) && c != '\t' && c != '\r' && c != '\u0085':
			return at, fmt.Sprintf("the control character U+%04X stands here", c), "remove it: text has none but tabs and line breaks"
		}
		at.Column++
		rest = rest[n:]
	}
	return Position{}, "", ""
}
