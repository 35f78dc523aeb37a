package boot

import (
	"bytes"
	"net/http"
	"text/template"
)

// Inspect is the script that makes iPXE send the machine's labels.
const Inspect = `#!ipxe
chain ipxe?uuid=${uuid}&mac=${mac:hexhyp}&domain=${domain}&hostname=${hostname}&serial=${serial}&arch=${buildarch:uristring}
`

var ipxeTemplate = template.Must(template.New("").Parse(`#!ipxe
kernel {{.Kernel}}{{range .Args}} {{.}}{{end}}
{{range .Initrd}}initrd {{.}}
{{end}}boot
`))

var grubTemplate = template.Must(template.New("").Parse(`default=0
fallback=1
timeout=1
menuentry "CoreOS (EFI)" {
echo "Loading kernel"
linuxefi "{{.Kernel}}"{{range .Args}} {{.}}{{end}}
echo "Loading initrd"
initrdefi {{range .Initrd}} "{{.}}"{{end}}
}
menuentry "CoreOS (BIOS)" {
echo "Loading kernel"
linux "{{.Kernel}}"{{range .Args}} {{.}}{{end}}
echo "Loading initrd"
initrd {{range .Initrd}} "{{.}}"{{end}}
}
`))

// diskScript leaves iPXE. UEFI continues with the next entry of its boot order only if iPXE fails: after a success it shows its menu. Some BIOSes
// do not continue, so the script names the disk.
const diskScript = `#!ipxe
iseq ${platform} efi && exit 1 ||
sanboot --no-describe --drive 0x80 || exit
`

const diskGRUB = "exit\n"

// profile is a Profile with rendered scripts.
type profile struct {
	Profile
	ipxe, grub *page // nil if the profile does not name a kernel or the disk
}

// page is an answer that is the same for all machines.
type page struct {
	body []byte
	kind string // its content type
}

func compileProfile(p Profile) *profile {
	c := &profile{Profile: p}
	switch {
	case p.Boot == nil:
	case p.Boot.Disk:
		c.ipxe, c.grub = newPage([]byte(diskScript)), newPage([]byte(diskGRUB))
	default:
		c.ipxe, c.grub = script(ipxeTemplate, p.Boot), script(grubTemplate, p.Boot)
	}
	return c
}

func script(t *template.Template, k *Kernel) *page {
	var b bytes.Buffer
	if err := t.Execute(&b, k); err != nil {
		panic(err) // neither the template nor its data can fail
	}
	return newPage(b.Bytes())
}

// newPage returns a page with the content type that net/http detects.
func newPage(body []byte) *page { return &page{body, http.DetectContentType(body)} }
