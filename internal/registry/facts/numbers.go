package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// unmarshal decodes JSON, and accepts 480103981056.0 and 4.8e11 as whole numbers: JSON has only one kind of number, and some programs write all of
// them with a fraction.
func unmarshal[T any](data []byte) (v T, err error) {
	err = json.Unmarshal(data, &v)
	if wrong := (*json.UnmarshalTypeError)(nil); !errors.As(err, &wrong) || !strings.HasPrefix(wrong.Value, "number") {
		return v, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var tree any
	if d.Decode(&tree) != nil {
		return v, err
	}
	again, e := json.Marshal(whole(tree))
	if e != nil {
		return v, err
	}
	var fresh T // without the remains of the first attempt
	err = json.Unmarshal(again, &fresh)
	return fresh, err
}

// whole writes each number without fraction as digits.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case json.Number:
		f, err := strconv.ParseFloat(v.String(), 64)
		if strings.ContainsAny(v.String(), ".eE") && err == nil && f == math.Trunc(f) && math.Abs(f) < math.MaxInt64 {
			return json.Number(strconv.FormatInt(int64(f), 10))
		}
	}
	return v
}
