package boot

import (
	"bytes"
	"net/http"
	"text/template"
)

// Inspect is the script that has iPXE say what machine it runs on.
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

// diskScript leaves iPXE. UEFI goes on with the next entry of its boot order then, where it is told that this one failed: after one that succeeded it
// shows its menu. Some BIOS would not go on, and are told which disk.
const diskScript = `#!ipxe
iseq ${platform} efi && exit 1 ||
sanboot --no-describe --drive 0x80 || exit
`

const diskGRUB = "exit\n"

// profile is a Profile whose scripts are rendered.
type profile struct {
	Profile
	ipxe, grub *page // nil where it says nothing of booting
}

// page is an answer that is the same for all who get it.
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
		panic(err) // neither the template nor what it is rendered with can fail
	}
	return newPage(b.Bytes())
}

// newPage gives an answer the content type that a server of net/http gives it.
func newPage(body []byte) *page { return &page{body, http.DetectContentType(body)} }
