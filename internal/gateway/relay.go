package gateway

import (
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/machine"
)

// Relay renders the unit of a control-plane machine that relays the adverts between gateways; none for fewer than two gateways. agentPath is the
// absolute path of naupegos-agent, and gateways are the gateways' addresses.
func Relay(agentPath string, gateways []string) []machine.Unit {
	if len(gateways) < 2 {
		return nil
	}
	unit := fmt.Sprintf(relayUnit, agentPath, strings.Join(gateways, " "))
	return []machine.Unit{{Name: "naupegos-gateway-relay.service", Content: unit, Enabled: true, Active: true}}
}

// relayUnit may open raw sockets and do nothing else.
const relayUnit = `[Unit]
Description=Naupegos: adverts between the gateways of the endpoint
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=%s gateway-relay %s
Restart=always
RestartSec=1
CapabilityBoundingSet=CAP_NET_RAW
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX

[Install]
WantedBy=multi-user.target
`
