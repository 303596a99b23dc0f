package web

// Routes returns the routes of the pages.
func (h *Handler) Routes() []Route { return h.routes }
