package python

import (
	"slices"
	"strings"
)

// limit is a reason why the built-in interpreter cannot use some names of a module or class.
type limit struct {
	names string // separated by spaces
	help  string
}

const (
	noFiles    = "Node code has no files. Pass the data in the state, read the file in an agent, or run with --python."
	noPrograms = "Node code cannot start programs. Use an agent with a command."
	noNetwork  = "Node code has no network. Make the request in an agent."
	noThreads  = "Node code has one thread. Call the functions one after the other, or run with --python."
	noZones    = "Node code has no time zone database. Use datetime.timezone with an offset, or run with --python."
)

// limits are the functions and classes that fail in the built-in interpreter, by module or class. The interpreter is
// CPython compiled to WebAssembly, without files, network, processes and threads.
var limits = map[string][]limit{
	"os": {
		{"listdir scandir walk mkdir makedirs remove unlink rename replace rmdir removedirs stat open", noFiles},
		{"system popen fork execv execve execvp spawnv spawnl posix_spawn kill", noPrograms},
	},
	"pathlib.Path": {
		{"read_text read_bytes write_text write_bytes open mkdir unlink rename replace rmdir touch iterdir", noFiles},
	},
	"shutil":             {{"copy copy2 copyfile copytree move rmtree", noFiles}},
	"tempfile":           {{"NamedTemporaryFile TemporaryDirectory TemporaryFile mkdtemp mkstemp", noFiles}},
	"subprocess":         {{"run Popen call check_call check_output getoutput getstatusoutput", noPrograms}},
	"multiprocessing":    {{"Process Pool", noPrograms}},
	"threading":          {{"Thread Timer", noThreads}},
	"concurrent.futures": {{"ThreadPoolExecutor ProcessPoolExecutor", noThreads}},
	"asyncio":            {{"run Runner new_event_loop get_event_loop", noThreads}},
	"socket":             {{"socket create_connection", noNetwork}},
	"urllib.request":     {{"urlopen urlretrieve", noNetwork}},
	"http.client":        {{"HTTPConnection HTTPSConnection", noNetwork}},
	"smtplib":            {{"SMTP SMTP_SSL", noNetwork}},
	"zoneinfo":           {{"ZoneInfo", noZones}},
}

// limitOf returns why the built-in interpreter cannot use a name of a module or class; "" if it can.
func limitOf(module, name string) string {
	if name == "" {
		return ""
	}
	for _, l := range limits[module] {
		if slices.Contains(strings.Fields(l.names), name) {
			return l.help
		}
	}
	return ""
}
