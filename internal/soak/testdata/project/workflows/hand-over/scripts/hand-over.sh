echo hand-over >> 'TRACE'; sleep 0.1
