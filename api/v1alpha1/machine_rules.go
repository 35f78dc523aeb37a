package v1alpha1

import "github.com/naupegos/naupegos/api/strict"

// settings adds the rules for MachineSettings at each of these paths.
func (r rules) settings(places ...string) rules {
	free := ChangeRule{Class: ChangeFree}
	for _, p := range places {
		for key, rule := range map[string]ChangeRule{
			"sysctls":                   {Class: ChangeFree, Say: "one that goes gets its value from before"},
			"modules":                   {Class: ChangeFree, Say: "one that goes stays loaded until the next boot"},
			"kernelArguments":           {Class: ChangeFree, Say: "they take effect when the machine reboots; naupegos update reboots one machine after another"},
			"files":                     {Class: ChangeFree, Say: "one that goes gives its place back to the file from before"},
			"files[].path":              free,
			"files[].content":           free,
			"files[].mode":              free,
			"files[].owner":             free,
			"units[]":                   {Class: ChangeFree, Say: "that unit alone starts, restarts or stops"},
			"units[].name":              free,
			"units[].content":           {Class: ChangeFree, Say: "that unit restarts"},
			"units[].enabled":           free,
			"units[].started":           free,
			"packages":                  {Class: ChangeFree, Say: "one that goes is removed if Naupegos installed it"},
			"repositories[]":            free,
			"repositories[].name":       free,
			"repositories[].url":        free,
			"repositories[].suite":      free,
			"repositories[].components": free,
			"repositories[].key":        free,
			"ntp.servers":               {Class: ChangeFree, Say: "the time daemon restarts"},
			"dns.servers":               {Class: ChangeFree, Say: "pods that run keep the servers that they started with"},
			"dns.searchDomains":         {Class: ChangeFree, Say: "pods that run keep the domains that they started with"},
			"trustedCAs":                {Class: ChangeRolling, Say: "containerd and the API servers restart; other containers that run go on"},
			"timeZone":                  {Class: ChangeFree, Say: "programs that run keep the zone that they started with"},
		} {
			r[strict.Join(p, key)] = rule
		}
		for _, moment := range []string{"beforeInstall", "afterInstall", "beforeUpgrade", "afterUpgrade", "beforeReset", "afterReset"} {
			for _, key := range []string{"[]", "[].name", "[].run", "[].timeout"} {
				r[strict.Join(p, "hooks."+moment+key)] = free
			}
		}
	}
	return r
}
