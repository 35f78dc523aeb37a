package flags

import (
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Check reports why a program would refuse a value of the flag, as "expected …"; empty if the program would accept it. Values of flags with a format
// of their own always pass.
func (f Flag) Check(value string) string {
	switch f.Type {
	case "bool", "WarningOnlyBool":
		if _, err := strconv.ParseBool(value); err != nil {
			return "expected true or false"
		}
	case "int", "int32", "int64", "uint", "uint32", "Level":
		return whole(f.Type, value)
	case "float", "float32", "float64":
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return "expected a number"
		}
	case "duration":
		if _, err := time.ParseDuration(value); err != nil {
			return `expected a duration like "30s" or "5m"`
		}
	case "ip":
		if net.ParseIP(strings.TrimSpace(value)) == nil {
			return "expected an IP address"
		}
	case "quantity":
		if _, err := resource.ParseQuantity(value); err != nil {
			return `expected a quantity like "100m" or "1Gi"`
		}
	case "int32Slice":
		for _, part := range strings.Split(value, ",") {
			if p := whole("int32", part); p != "" {
				return "expected whole numbers with commas between them"
			}
		}
	case "mapStringBool":
		return pairs(value, func(v string) bool { _, err := strconv.ParseBool(v); return err == nil }, "expected NAME=true or NAME=false, with commas between them")
	case "mapStringString", "stringToString":
		if value != "" {
			return pairs(value, func(string) bool { return true }, "expected NAME=VALUE, with commas between them")
		}
	case "portRange":
		if value != "" && !regexp.MustCompile(`^[0-9]{1,5}([-+][0-9]{1,5})?$`).MatchString(value) {
			return `expected a range of ports like "30000-32767"`
		}
	}
	return ""
}

// whole reports why a value is not a whole number of the type.
func whole(typ, value string) string {
	bits := 64
	if strings.HasSuffix(typ, "32") || typ == "Level" {
		bits = 32
	}
	var err error
	if strings.HasPrefix(typ, "uint") {
		_, err = strconv.ParseUint(value, 0, bits)
	} else {
		_, err = strconv.ParseInt(value, 0, bits)
	}
	if err != nil {
		return "expected a whole number"
	}
	return ""
}

// pairs checks a comma-separated list of NAME=VALUE.
func pairs(value string, ok func(string) bool, expected string) string {
	for _, part := range strings.Split(value, ",") {
		name, v, found := strings.Cut(part, "=")
		if !found || strings.TrimSpace(name) == "" || !ok(strings.TrimSpace(v)) {
			return expected
		}
	}
	return ""
}

// CheckField reports why a configuration field of the table's type typ would refuse a value, as decoded from YAML; empty if it would accept it.
func CheckField(typ string, value any) string {
	if elem, ok := strings.CutPrefix(typ, "list:"); ok {
		list, ok := value.([]any)
		if !ok {
			return "expected a list"
		}
		for _, v := range list {
			if p := CheckField(elem, v); p != "" {
				return p + " in the list"
			}
		}
		return ""
	}
	if elem, ok := strings.CutPrefix(typ, "map:"); ok {
		m, ok := value.(map[string]any)
		if !ok {
			return "expected a mapping"
		}
		for key, v := range m {
			if p := CheckField(elem, v); p != "" {
				return p + " for " + strconv.Quote(key)
			}
		}
		return ""
	}
	return checkScalar(typ, value)
}

func checkScalar(typ string, value any) string {
	text, isText := value.(string)
	_, isInt := value.(int)
	_, isFloat := value.(float64)
	_, isBool := value.(bool)
	_, isMap := value.(map[string]any)
	switch {
	case typ == "string" && !isText:
		return "expected text"
	case typ == "bool" && !isBool:
		return "expected true or false"
	case typ == "int" && !isInt:
		return "expected a whole number"
	case typ == "number" && !isInt && !isFloat:
		return "expected a number"
	case typ == "mapping" && !isMap:
		return "expected a mapping"
	case typ == "duration":
		if _, err := time.ParseDuration(text); err != nil {
			return `expected a duration like "30s" or "5m"`
		}
	}
	return ""
}

// Unwritable reports why a value can't be passed on: static pods expand $(NAME), and systemd interprets special characters in kubelet's flags.
func Unwritable(program, value string) string {
	switch {
	case strings.ContainsAny(value, "\n\r\x00"):
		return "has more than one line"
	case strings.Contains(value, "$("):
		return "has $( in it, which Kubernetes would replace"
	case program == Kubelet && strings.ContainsAny(value, " \t\"'\\$%"):
		return "has a space, a quote, or one of \\ $ % in it, which systemd would take for its own"
	}
	return ""
}

// EvictionSignals lists the signals by which kubelet evicts pods.
func EvictionSignals() []string {
	return []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "containerfs.available",
		"containerfs.inodesFree", "pid.available"}
}
