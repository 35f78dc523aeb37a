package rootfs

import "testing"

func TestWithoutLogins(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`Acquire::http::Proxy "http://me:se%40cret@proxy.example:3128/";`, `Acquire::http::Proxy "http://proxy.example:3128/";`},
		{`Acquire::http::Proxy "http://me:p@ss@proxy.example/";`, `Acquire::http::Proxy "http://proxy.example/";`},
		{`Acquire::https::Proxy "https://token@proxy.example";`, `Acquire::https::Proxy "https://proxy.example";`},
		{`Acquire::http::Proxy "http://proxy.example:3128/a@b";`, `Acquire::http::Proxy "http://proxy.example:3128/a@b";`},
		{"deb http://me:secret@mirror.example/debian bookworm main\ndeb http://mirror.example/a@b bookworm main\n", "deb http://mirror.example/debian bookworm main\ndeb http://mirror.example/a@b bookworm main\n"},
	} {
		if got := withoutLogins(c.in); got != c.want {
			t.Errorf("%s\nbecomes %s\nwant    %s", c.in, got, c.want)
		}
	}
}
