package boot

import (
	"net"
	"net/url"
)

// Labels returns what a machine says of itself in the query of its request: of each label the first value, MAC addresses in lower case with
// colons, whatever their form was. What is no MAC address is left out.
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
