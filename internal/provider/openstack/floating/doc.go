// Package floating keeps the floating IPs of one cluster: those of machines, and the one of the API's address, which the cluster makes or the user
// has reserved. It never releases a floating IP of the user. It must not know which ports have them, apart from the functions that it is given.
package floating
