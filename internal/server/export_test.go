package server

// Routes returns the routes of the API and what each of them needs.
func (s *Server) Routes() []Route { return s.routes }
