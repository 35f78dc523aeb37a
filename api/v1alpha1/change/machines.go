package change

import "github.com/naupegos/naupegos/api/strict"

// settings adds the rules for MachineSettings at each of these paths.
func (r Rules) settings(places ...string) {
	for _, p := range places {
		for key, rule := range map[string]Rule{
			"sysctls":           {Class: Free, Say: "a removed setting gets its previous value back"},
			"modules":           {Class: Free, Say: "a removed module stays loaded until the next boot"},
			"kernelArguments":   {Class: Free, Say: "they take effect when the machine reboots; naupegos update reboots one machine after another"},
			"files":             {Class: Free, Say: "the file that a removed file had replaced is restored"},
			"units[]":           {Class: Free, Say: "that unit alone starts, restarts or stops"},
			"units[].content":   {Class: Free, Say: "that unit restarts"},
			"packages":          {Class: Free, Say: "a removed package is uninstalled if Naupegos installed it"},
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
