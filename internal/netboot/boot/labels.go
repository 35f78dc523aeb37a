package boot

import (
	"net"
	"net/url"
)

// Labels returns a machine's labels from the query of its request: the first value of each label, with MAC addresses in lower case with colons,
// whatever form they had. It leaves out invalid MAC addresses.
func Labels(query url.Values) map[string]string {
	labels := make(map[string]string, len(query))
	for key := range query {
		value := query.Get(key)
		if isMAC(key) {
			mac, err := net.ParseMAC(value)
			if err != nil {
				continue
			}
			value = mac.String()
		}
		labels[key] = value
	}
	return labels
}
