package boot

import (
	"encoding/json"
	"fmt"
	"strings"

	butaneconfig "github.com/coreos/butane/config"
	"github.com/coreos/butane/config/common"
	"github.com/coreos/go-semver/semver"
	"github.com/coreos/ignition/v2/config/util"
	"github.com/coreos/ignition/v2/config/v3_4"
	v3_4types "github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/coreos/ignition/v2/config/v3_5"
)

// ignition returns an Ignition config for machines: version 3.4.0 for a config of that version or an older one, as matchbox does, else 3.5.0. For
// an invalid config it returns an error and, as matchbox does, an empty config without a version, at which a machine stops with an error.
func ignition(data []byte) ([]byte, error) {
	parse := parse34
	if v, _, err := util.GetConfigVersion(data); err == nil && v34.LessThan(v) {
		parse = parse35
	}
	config, err := parse(data)
	if err != nil {
		config = v3_4types.Config{}
	}
	answer, e := json.Marshal(config)
	if e != nil {
		return nil, e
	}
	return answer, err
}

var v34 = semver.Version{Major: 3, Minor: 4}

func parse34(data []byte) (any, error) {
	config, report, err := v3_4.ParseCompatibleVersion(data)
	if err != nil {
		return nil, fmt.Errorf("Ignition does not accept it: %w: %s", err, oneLine(report))
	}
	return config, nil
}

func parse35(data []byte) (any, error) {
	config, report, err := v3_5.ParseCompatibleVersion(data)
	if err != nil {
		return nil, fmt.Errorf("Ignition does not accept it: %w: %s", err, oneLine(report))
	}
	return config, nil
}

// oneLine joins the lines of a report.
func oneLine(report fmt.Stringer) string {
	return strings.Join(strings.FieldsFunc(report.String(), func(r rune) bool { return r == '\n' }), "; ")
}

// butane translates a Butane config to Ignition.
func butane(data []byte) ([]byte, error) {
	translated, report, err := butaneconfig.TranslateBytes(data, common.TranslateBytesOptions{})
	if err != nil {
		return nil, fmt.Errorf("Butane does not accept it: %w: %s", err, oneLine(report))
	}
	answer, _ := ignition(translated) // if Ignition rejects Butane's result, the answer is empty, as matchbox's
	return answer, nil
}
