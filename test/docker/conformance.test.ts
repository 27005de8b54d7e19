import { runtimeConformance } from "../runtimes/conformance.ts";
import { DockerSite } from "./docker-site.ts";

runtimeConformance("docker", async () => new DockerSite(), { concurrency: 3 });
