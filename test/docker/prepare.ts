import { testSocket } from "./docker-site.ts";
import { importEngineImage } from "./images.ts";

/** Makes the images that the tests of this folder run. */
await importEngineImage(testSocket());
