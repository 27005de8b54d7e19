import { render } from "preact";
import { startClock } from "../shared/clock.ts";
import { App } from "./app.tsx";
import { guardUnsaved } from "./leaving.ts";
import { followLinks } from "./router.ts";

followLinks();
guardUnsaved();
startClock();
render(<App />, document.body);
