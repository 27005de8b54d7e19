import { render } from "preact";
import { App } from "./app.tsx";
import { followLinks } from "./router.ts";

followLinks();
render(<App />, document.body);
