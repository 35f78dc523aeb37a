package validation

import (
	"net/netip"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// userName matches names that sshd may know: directory services allow capital letters, domains and backslashes.
var userName = regexp.MustCompile(`^[A-Za-z_][-A-Za-z0-9_.@\\]{0,63}$`)

// variableName matches names of environment variables.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkUser(r *findings, field, name string) {
	if !userName.MatchString(name) {
		r.Add(field, strict.Quote(name)+" is not a user name", "")
	}
}

func checkFilePath(r *findings, field, path, hint string) {
	if strings.ContainsFunc(path, func(c rune) bool { return c < ' ' }) {
		r.Add(field, "is not the path of a file", hint)
	}
}

const keyPathHint = "give the path of the private key, not the key itself"

// checkHostsLogin checks the login fields for all machines.
func checkHostsLogin(r *findings, path string, h *v1alpha1.Hosts) {
	checkUser(r, path+".user", h.User)
	checkFilePath(r, path+".sshKeyFile", h.SSHKeyFile, keyPathHint)
	checkFilePath(r, path+".sshConfig", h.SSHConfig, "give the path of the configuration, like ~/.ssh/config")
	if h.SSHKeyFile == "" && h.Credential == "" && !h.SSHAgent && h.SSHConfig == "" {
		r.Add(path+".sshKeyFile", "is required", "name the file with the private SSH key that logs in to the machines, or, on a server, its credential")
	}
	checkCredential(r, path, "sshKeyFile", h.SSHKeyFile, h.Credential)
	checkPasswordSource(r, path+".sudoPassword", h.SudoPassword)
	for i, b := range h.Bastions {
		p := strict.Item(path+".bastions", i)
		checkSSHAddress(r, p+".address", b.Address)
		if b.User != "" {
			checkUser(r, p+".user", b.User)
		}
		checkFilePath(r, p+".sshKeyFile", b.SSHKeyFile, keyPathHint)
		switch problem, hint := checkPublicKey(b.HostKey); {
		case b.HostKey == "" && !h.TrustOnFirstUse && h.SSHConfig == "":
			r.Add(p+".hostKey", "is required", "take it from /etc/ssh/ssh_host_ed25519_key.pub on the jump host itself; or set trustOnFirstUse", path+".trustOnFirstUse")
		case b.HostKey != "" && problem != "":
			r.Add(p+".hostKey", problem, hint)
		}
	}
}

// checkMachineLogin checks the login fields of one machine.
func checkMachineLogin(r *findings, path string, m *v1alpha1.HostMachine) {
	if m.SSHAddress != "" {
		checkSSHAddress(r, path+".sshAddress", m.SSHAddress)
	}
	if m.User != "" {
		checkUser(r, path+".user", m.User)
	}
	checkFilePath(r, path+".sshKeyFile", m.SSHKeyFile, keyPathHint)
	checkPasswordSource(r, path+".sudoPassword", m.SudoPassword)
}

// checkPasswordSource requires exactly one source, which refers to the password without containing it.
func checkPasswordSource(r *findings, path string, p *v1alpha1.PasswordSource) {
	if p == nil {
		return
	}
	n := 0
	for _, set := range []bool{p.File != "", p.Env != "", p.Prompt} {
		if set {
			n++
		}
	}
	if n != 1 {
		r.Add(path, "takes exactly one of file, env and prompt", "the password itself never stands in a document")
	}
	if p.Env != "" && !variableName.MatchString(p.Env) {
		r.Add(path+".env", "is not the name of an environment variable", "give the name of a variable that holds the password, not the password itself")
	}
	checkFilePath(r, path+".file", p.File, "give the path of a file that holds the password, not the password itself")
}

// checkSSHAddress checks an SSH address, which has no port.
func checkSSHAddress(r *findings, field, address string) {
	if address == "" {
		return // reported as required
	}
	if _, err := netip.ParseAddr(address); err == nil {
		return
	}
	if len(validation.IsDNS1123Subdomain(strings.ToLower(address))) == 0 {
		return
	}
	hint := ""
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		hint = "the port has a field of its own"
	}
	if i := strings.IndexByte(address, '@'); i >= 0 {
		hint = "the user has a field of its own"
	}
	r.Add(field, strict.Quote(address)+" is neither an IP address nor a host name", hint)
}

// checkHostName checks the name of a host, which may have a domain.
func checkHostName(r *findings, field, name string) {
	if len(name) <= validation.DNS1123LabelMaxLength && strings.Contains(name, ".") && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return
	}
	checkLabelName(r, field, name)
}
