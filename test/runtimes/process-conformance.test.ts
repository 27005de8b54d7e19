import { runtimeConformance } from "./conformance.ts";
import { ProcessSite } from "./process-site.ts";

runtimeConformance("process", async () => new ProcessSite());
