package facts

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// dummyUUID says why a UUID is a maker's default that many machines have; empty if it looks unique. Firmware disagrees about the order of bytes, so it
// checks each UUID in all orders in use.
func dummyUUID(uuid string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(raw) != 16 {
		return "" // ParseUUID refuses it
	}
	for _, b := range orders(raw) {
		switch {
		case periodic(b):
			return "it repeats itself"
		case boardMAC(b):
			return ""
		case covered(b) >= 14 || covered(nibbles(b)) >= 30 || covered(words(b)) == 8:
			return "it counts up or down"
		case dellWithoutTag(b):
			return "Dell's form without a service tag"
		case almostEmpty(b):
			return "it is almost empty"
		case printable(b) && DummyText(strings.TrimRight(string(b), "\x00")):
			return "it is the text " + strconv.Quote(strings.TrimRight(string(b), "\x00"))
		}
	}
	return ""
}

// almostEmpty reports whether at most four bytes are neither 0 nor 255.
func almostEmpty(b []byte) bool {
	return bytes.Count(b, []byte{0}) >= 12 || bytes.Count(b, []byte{0xff}) >= 12
}

// printable reports whether a UUID is text, perhaps with zeros behind it.
func printable(b []byte) bool {
	text := bytes.TrimRight(b, "\x00")
	return len(text) > 0 && !slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' })
}

// orders returns a UUID unchanged, with the first three fields reversed (SMBIOS 2.6), each half word reversed, each word reversed, all reversed, and
// with any two of these.
func orders(raw []byte) [][]byte {
	turns := [][]int{{4, 2, 2}, {2, 2, 2, 2, 2, 2, 2, 2}, {4, 4, 4, 4}, {16}}
	all := [][]byte{raw}
	for range 2 {
		for _, b := range all {
			for _, groups := range turns {
				out, at := slices.Clone(b), 0
				for _, n := range groups {
					slices.Reverse(out[at : at+n])
					at += n
				}
				if !slices.ContainsFunc(all, func(o []byte) bool { return bytes.Equal(o, out) }) {
					all = append(all, out)
				}
			}
		}
	}
	return all
}

// boardMAC reports whether a UUID consists of zeros and a MAC address, as Supermicro's do.
func boardMAC(b []byte) bool {
	mac := slices.Clone(b[10:])
	unicast := mac[0]&1 == 0
	slices.Sort(mac)
	return !slices.ContainsFunc(b[:10], func(c byte) bool { return c != 0 }) && covered(b[10:]) <= 3 && unicast && len(slices.Compact(mac)) >= 4
}

// periodic reports whether up to four bytes repeat.
func periodic(b []byte) bool {
	for _, n := range []int{1, 2, 3, 4} {
		same := true
		for i := n; i < len(b); i++ {
			same = same && b[i] == b[i-n]
		}
		if same {
			return true
		}
	}
	return false
}

// covered counts the elements in runs of at least three that are equal, or count by one, by 0x11 (aabbcc) or by 0x22 (123456).
func covered[T byte | uint16](list []T) (n int) {
	steps := []T{0, 1, 0x11, 0x22}
	for from := 0; from < len(list); {
		to := from + 1
		if to < len(list) {
			if step := list[to] - list[from]; slices.Contains(steps, step) || slices.Contains(steps, -step) {
				up := list[to] >= list[from]
				for to < len(list) && list[to]-list[to-1] == step && (list[to] >= list[to-1]) == up { // never around
					to++
				}
			}
		}
		if to-from < 3 {
			from++
			continue
		}
		n += to - from
		from = to
	}
	return n
}

func nibbles(b []byte) []byte {
	out := make([]byte, 0, 2*len(b))
	for _, c := range b {
		out = append(out, c>>4, c&15)
	}
	return out
}

func words(b []byte) []uint16 {
	out := make([]uint16, 0, len(b)/2)
	for i := 0; i+1 < len(b); i += 2 {
		out = append(out, uint16(b[i])<<8|uint16(b[i+1]))
	}
	return out
}

// dellWithoutTag: Dell's UUIDs are "DELL" and the seven characters of the service tag, spread over the rest: 4c4c4544-00TT-TT10-80TT-TTc04fTTTTTT.
func dellWithoutTag(b []byte) bool {
	if string(b[:4]) != "LLED" || b[8] != 0x80 {
		return false
	}
	tag := string([]byte{b[5], b[6], b[9], b[10] & 0x7f, b[13], b[14], b[15]})
	return !strings.ContainsFunc(tag, func(r rune) bool { return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) }) || DummyText(tag)
}

var (
	fillers = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(to ?be ?(filled|set)|(filled|set) by|default|system|chassis|base ?board|board|product|unknown|undefined|unspecified|invalid|empty|dummy|sample|test|none|null|nil|n/?a|oem|o\.e\.m|not ?(applicable|available|specified|settable|present|set|provided|programmed|defined|known)|no ?(asset|serial|tag|enclosure)|x{4,}|\.{2,}|\*{2,}|-{2,}|_{2,})`)
	})
	names = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^((the )?(system|chassis|base ?board|board|product|default|sample|test|dummy)?[ -]?(manufacturer|vendor|product ?name|name|serial|serial ?(number|no\.?)|s/n|sn|version|sku|asset|asset ?tag|string|uuid)( ?\d+)?)$`)
	})
)

// joined matches dummies without separators between words, or with a number after them: "ToBeFilledByOEM", "SerNum0", "Default string000".
// Punctuation and blanks have been removed.
var joined = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^((tobe)?(filled|set|defined|determined|programmed|updated)(by)?(oem)?|(oem)?(default)(string)?|oem|(type\d)?(system|chassis|baseboard|board|product|oem)?(serialnumber|sernum|partnum|assettagnum|assettag|manufacturer|serial)|insert\w*here|badindex|outofspec|reserved|placeholder|example|unknow|nodata|nodimm|not(supported|filled|assigned|entered|initialized))(\d*|x*)$|^tb[df]$`)
})

// numbered matches a few letters and a number that counts: "MB-1234567890", "SSN12345678901234567".
var numbered = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]{1,3}(\d{9,})$`) })

// DummyText reports whether an SMBIOS string is a vendor's placeholder: "To be filled by O.E.M.", "Default string", "System Serial Number", "None",
// "123456789", "00000000". A real value may begin in the same way, so only whole texts count.
func DummyText(text string) bool {
	t := strings.ToLower(strings.Join(strings.Fields(text), " "))
	bare := strings.Trim(t, "()[]<>{}$:\"' ")
	letters := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, t)
	switch {
	case t == "":
		return false // an empty text is not a dummy
	case letters == "":
		return true
	case names().MatchString(bare), filler(bare), joined().MatchString(letters):
		return true
	}
	if n := numbered().FindStringSubmatch(letters); n != nil {
		return counts(n[1])
	}
	letters = strings.TrimPrefix(letters, "0x")
	return len(letters) >= 3 && (covered([]byte(letters)) == len(letters) || counts(letters))
}

// filler reports whether a text is one of the fillers and nothing more than filling words.
func filler(t string) bool {
	at := fillers().FindStringIndex(t)
	if at == nil {
		return false
	}
	rest := strings.FieldsFunc(t[at[1]:], func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return !slices.ContainsFunc(rest, func(word string) bool { return !slices.Contains(fillingWords, word) })
}

var fillingWords = []string{"by", "o", "e", "m", "oem", "string", "strings", "value", "serial", "number", "name", "tag", "asset", "manufacturer", "vendor", "product", "version", "info",
	"information", "system", "chassis", "board", "specified", "available", "applicable", "here", "the", "sku", "uuid", "data", "text", "a", "in", "d", "filled", "to", "be"}

// counts reports whether a text counts up or down through the digits and perhaps the letters, over and over: "1234567890", "0123456789abcdef".
func counts(t string) bool {
	if len(t) < 5 {
		return false
	}
	const up = "0123456789abcdefghijklmnopqrstuvwxyz"
	step := func(a, b byte) int {
		i, j := strings.IndexByte(up, a), strings.IndexByte(up, b)
		switch {
		case i < 0 || j < 0:
			return 0
		case j == i+1, a == '9' && b == '0', a == '9' && b == '1', a == 'f' && b == '0', a == '0' && b == 'a':
			return 1
		case j == i-1, a == '0' && b == '9':
			return -1
		}
		return 0
	}
	first := step(t[0], t[1])
	for i := 1; i < len(t) && first != 0; i++ {
		if step(t[i-1], t[i]) != first {
			return false
		}
	}
	return first != 0
}

// leaveOutDummies removes makers' defaults, and records them.
func (s *System) leaveOutDummies() {
	s.Ignored = nil
	for _, f := range []struct {
		name string
		text *string
	}{{"manufacturer", &s.Manufacturer}, {"product", &s.Product}, {"serial number", &s.Serial}} {
		if DummyText(*f.text) {
			s.Ignored = append(s.Ignored, fmt.Sprintf("%s %q", f.name, *f.text))
			*f.text = ""
		}
	}
}
