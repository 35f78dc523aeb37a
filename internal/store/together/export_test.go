package together

// Waiting returns how many changes wait for a transaction.
func Waiting(w *Writer) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}
