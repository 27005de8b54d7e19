import { render } from "preact";
import { App } from "./app.tsx";
import { guardUnsaved } from "./leaving.ts";
import { followLinks } from "./router.ts";
import { shareConnections } from "./windows.ts";

followLinks();
guardUnsaved();
shareConnections();
render(<App />, document.body);
