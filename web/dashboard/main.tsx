import { render } from "preact";
import { App } from "./app.tsx";
import { guardUnsaved } from "./leaving.ts";
import { followLinks } from "./router.ts";

followLinks();
guardUnsaved();
render(<App />, document.body);
