package change

import "github.com/naupegos/naupegos/api/strict"

// settings adds the rules for MachineSettings at each of these paths.
func (r Rules) settings(places ...string) {
	for _, p := range places {
		for key, rule := range map[string]Rule{
			"sysctls":           {Class: Free, Say: "one that goes gets its value from before"},
			"modules":           {Class: Free, Say: "one that goes stays loaded until the next boot"},
			"kernelArguments":   {Class: Free, Say: "they take effect when the machine reboots; naupegos update reboots one machine after another"},
			"files":             {Class: Free, Say: "one that goes gives its place back to the file from before"},
			"units[]":           {Class: Free, Say: "that unit alone starts, restarts or stops"},
			"units[].content":   {Class: Free, Say: "that unit restarts"},
			"packages":          {Class: Free, Say: "one that goes is removed if Naupegos installed it"},
			"ntp.servers":       {Class: Free, Say: "the time daemon restarts"},
			"dns.servers":       {Class: Free, Say: "pods that run keep the servers that they started with"},
			"dns.searchDomains": {Class: Free, Say: "pods that run keep the domains that they started with"},
			"trustedCAs":        {Class: Rolling, Say: "containerd and the API servers restart; other containers that run go on"},
			"timeZone":          {Class: Free, Say: "programs that run keep the zone that they started with"},
		} {
			r[strict.Join(p, key)] = rule
		}
	}
}
