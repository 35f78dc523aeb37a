// The key of the link is behind the #, which browsers send to no server. It leaves the address, and thus the history, before it is sent.
"use strict";
const key = location.hash.slice(1);
if (key) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("key").value = key;
  document.getElementById("open").requestSubmit();
}
