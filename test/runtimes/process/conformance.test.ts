import { runtimeConformance } from "../conformance.ts";
import { ProcessSite } from "./site.ts";

runtimeConformance("process", async () => new ProcessSite());
