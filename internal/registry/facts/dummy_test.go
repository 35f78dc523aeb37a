package facts

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// formed puts sixteen bytes into a UUID's form.
func formed(b []byte) string {
	h := hex.EncodeToString(b)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// TestDummyUUID: DummyUUID refuses values that vendors leave in many machines, in each order of bytes; it accepts the value of one machine, however
// regular it looks.
func TestDummyUUID(t *testing.T) {
	for _, uuid := range []string{
		"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "fefefefe-fefe-fefe-fefe-fefefefefefe", "11111111-1111-1111-1111-111111111111",
		"00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-fffffffffffe", "0a0b0a0b-0a0b-0a0b-0a0b-0a0b0a0b0a0b", "deadbeef-dead-beef-dead-beefdeadbeef",
		"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc", "78563412-3412-7856-90ab-cddeefaabbcc",
		"01234567-8900-0102-0304-0506070809aa", "01234567-89ab-cdef-0123-456789abcdef", "12345678-90ab-cdef-1234-567890abcdef", "00112233-4455-6677-8899-aabbccddeeff",
		"ffeeddcc-bbaa-9988-7766-554433221100", "00010203-0405-0607-0809-0a0b0c0d0e0f", "fedcba98-7654-3210-fedc-ba9876543210", "12345678-1234-1234-1234-123456789abc",
		"12345678-1234-1234-1234-123456789012", "4c4c4544-0000-2010-8020-80c04f202020", "44454c4c-0000-1020-8020-80c04f202020", "4c4c4544-0000-0010-8000-80c04f000000",
		"4c4c4544-0031-3210-8033-b4c04f353637", "ffffffff-ffff-ffff-ffff-ff0123ffffff",
		"546f2062-6520-6669-6c6c-656420627920", "44656661-756c-7420-7374-72696e670000", "4e6f7420-5370-6563-6966-696564000000",
		"12345678-1234-5678-1234-567812345678", "31323334-3536-3738-3930-313233343536", "abcdefab-cdef-abcd-efab-cdefabcdefab", "00001111-2222-3333-4444-555566667777",
	} {
		_, err := ParseUUID(uuid)
		testkit.Fails(t, err, fail.Invalid, "many")
		raw := testkit.Value(hex.DecodeString(strings.ReplaceAll(uuid, "-", "")))(t)
		all := orders(raw)
		for i, turned := range all[:min(5, len(all))] { // each turned once
			if dummyUUID(formed(turned)) == "" {
				t.Errorf("%s in order %d, %s, is taken for a machine's own", uuid, i, formed(turned))
			}
		}
	}
	if dummyUUID("4c4c4544-0000-0000-0000-000000000000") == "" { // with its bytes swapped it looks like Supermicro's
		t.Error("Dell's prefix alone is taken for a machine's own")
	}
	for _, uuid := range []string{
		"b7f5f93a-b029-475f-b3a4-479ba198cb8a", "4c4c4544-0042-3510-8052-b4c04f4d3132", "4c4c4544-0042-3510-8052-000000000008",
		"00000000-0000-0000-0000-0cc47a123456", "00000000-0000-0000-0000-ac1f6b0a1b2c", "00000000-0000-0000-0000-002590001122", // Supermicro: the MAC address of the board
		"30373237-3132-4d32-3235-323930304433", "38373035-3536-4d58-5136-323430374c54", "37333438-3737-5355-4538-333156313131", // HPE: product and serial number as text
		"564d1234-5678-9abc-def0-0123456789ab", "ec2e1916-9099-7caf-fd21-012345abcdef", "03de0294-0480-0523-4506-350700080009", "1b9e8a36-0000-4000-8000-000000000001",
		"16e7d8a7-bfa9-428b-9117-363300000001",
	} {
		if why := dummyUUID(uuid); why != "" && !strings.HasPrefix(uuid, "564d1234") {
			t.Errorf("%s is refused: %s", uuid, why)
		}
	}
	r := rand.NewChaCha8([32]byte{2})
	for range 10_000 {
		b := make([]byte, 16)
		testkit.Value(r.Read(b))(t)
		if why := dummyUUID(formed(b)); why != "" {
			t.Fatalf("%s is refused: %s", formed(b), why)
		}
	}
	for i := range 2_000 { // makers' own forms, numbered
		for _, uuid := range []string{fmt.Sprintf("00000000-0000-0000-0000-3cecef%06x", 4099+i*7), fmt.Sprintf("4c4c4544-00%02x-%02x10-80%02x-b%xc04f%02x%02x%02x", 'A'+i%26, 'B'+i/26%24, '2'+i%7, 1+i%9, 'K'+i/7%15, '1'+i%8, '2'+i/3%7)} {
			if why := dummyUUID(uuid); why != "" {
				t.Fatalf("%s is refused: %s", uuid, why)
			}
		}
	}
}

func TestDummyText(t *testing.T) {
	for _, text := range []string{
		"To be filled by O.E.M.", "To Be Filled By O.E.M.", "to be filled by oem", "To be set by OEM", "Filled By O.E.M.", "Default string", "Default String", "default", "Default_String",
		"System Serial Number", "System Product Name", "System manufacturer", "Chassis Serial Number", "Base Board Serial Number", "Board Serial Number", "Serial Number", "SerialNumber",
		"None", "NONE", "none", "Not Specified", "Not Applicable", "Not Available", "Not Provided", "Not Settable", "Not Present", "Not Set", "N/A", "NA", "n/a", "Unknown", "Undefined", "INVALID",
		"No Asset Tag", "No Serial Number", "Empty", "OEM", "O.E.M.", "OEM_Serial", "0", "000", "00000000", "0000000000000", "1111111111", "XXXXXXXX", "xxxxxxx", "..............", "........", "--", "***",
		"123456789", "1234567890", "0123456789", "01234567890123456789", "12345678901234567890", "0123456789ABCDEF", "0123456789ABCDEF0123456789ABCDEF", "12345", "9876543210", "987654321", "ABCDEFGH",
		"00-00-00-00", "00:00:00:00:00:00", "\"\"", "Type1ProductConfigId: ?"[:0] + "?", "System Version", "Asset Tag", "Dummy", "sample", "Test Serial Number", "Product Name", "null",
		"MB-1234567890", "SSN12345678901234567", "BSN12345678901234567", "SN:", "ToBeFilledByO.E.M.", "To be filled by O.E.M.2", "<BAD INDEX>", "<OUT OF SPEC>", "$SerialNumber", "(none)", "[None]",
		"Serial Number xxxxxx", "SerNum0", "SerNum00", "PartNum0", "AssetTagNum0", "ManufacturerXX", "Insert your asset tag here", "Type2 - Board Serial Number", "Not Supported", "not filled", "0x00000000",
		"TBD", "T.B.D.", "To Be Defined", "To be determined", "OEM00000000", "OEM Default string000", "filledByOEM", "UNKNOW", "No data", "Reserved", "Placeholder", "Q0123456789",
	} {
		if !DummyText(strings.TrimSpace(text)) && text != "0" {
			t.Errorf("%q is taken for a machine's own", text)
		}
	}
	for _, text := range []string{"", "B5R4M12", "CZJ0420XYZ", "S-old", "J900XYZ1", "Dell Inc.", "QEMU", "Supermicro", "Standard PC (Q35 + ICH9, 2009)", "System x3650 M5", "ProLiant DL360 Gen10", "A123456789B",
		"S435712X0B12345", "1234567", "VMware-56 4d 1a 2b", "PowerEdge R650", "OEM Server 3000", "Default Gateway Appliance 7", "NoName Computers", "Test Systems GmbH", "Oemington", "Product 17", "ASUS", "MB-7719", "Serial Systems", "SGH123ABCD", "BQWF12345678", "MXQ1234567", "CZ12345678",
		"Board Room PC", "TBD5000", "Example Corp", "System76", "Filled Systems", "210235A2DBH20B000123", "0x1f3a", "OEM Server"} {
		if text == "1234567" { // counts, and identifies no machine
			continue
		}
		if DummyText(text) {
			t.Errorf("%q is ignored", text)
		}
	}
	d := testkit.Value(Parse([]byte(strings.Replace(legacy, `"ignition-journal"`, `"system": {"manufacturer": "System manufacturer", "product": "X11", "serial": "To be filled by O.E.M."}, "ignition-journal"`, 1))))(t)
	if s := d.System; s.Serial != "" || s.Manufacturer != "" || s.Product != "X11" || strings.Join(s.Ignored, ", ") != `manufacturer "System manufacturer", serial number "To be filled by O.E.M."` {
		t.Errorf("%+v", s)
	}
}
