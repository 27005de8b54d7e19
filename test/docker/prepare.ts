import { testSocket } from "./docker-site.ts";
import { importEmptyImage, importEngineImage } from "./images.ts";

/** Makes the images that the tests of this folder run. */
await importEngineImage(testSocket());
await importEmptyImage(testSocket());
