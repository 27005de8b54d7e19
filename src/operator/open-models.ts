import type { Config } from "../api/config.ts";
import type { PullRequest } from "../api/pull.ts";
import type { PublishedRegistry } from "../api/status.ts";
import { catalogSpecsReader } from "../models/catalog-specs.ts";
import { openModelPulls, type OpenedPulls } from "../models/fetch/open.ts";
import { HeaderFiles, type ReadJournal } from "../models/header-files.ts";
import { licensesReader } from "../models/licenses.ts";
import { openRegistry, type ModelRegistry } from "../models/registry.ts";
import type { DocumentSet } from "../store/document-set.ts";
import type { OperatorOptions } from "./options.ts";

interface OpenedModels extends AsyncDisposable {
  readonly headers: HeaderFiles;
  readonly fetching: OpenedPulls;
  readonly registry: ModelRegistry;
}

/** Opens the models of this machine and the pulls of further ones. `boot` names this boot of the machine. */
export async function openModels(
  { modelsDir, pullBandwidth, diskReserve }: Config,
  { env, log, catalog }: OperatorOptions,
  {
    boot,
    before,
    pullRequests,
    run,
  }: {
    readonly boot: string;
    readonly before: PublishedRegistry | undefined;
    readonly pullRequests: DocumentSet<PullRequest>;
    readonly run: ReadJournal;
  },
): Promise<OpenedModels> {
  await using stack = new AsyncDisposableStack();
  const headers = new HeaderFiles(run);
  const fetching = stack.use(
    await openModelPulls({
      modelsDir,
      boot,
      env,
      bytesPerSecond: pullBandwidth,
      reserveBytes: diskReserve,
      requested: () => pullRequests.list().filter(({ action }) => action === "run" || action === "pause"),
      headers,
      onError: (error) => log.error({ err: error }, "a fetched model may not be on the disk yet"),
    }),
  );
  const registry = stack.use(
    await openRegistry({
      modelsDir,
      fetched: fetching.store,
      flm: fetching.flm,
      licenses: licensesReader(catalog),
      catalog: catalogSpecsReader(catalog),
      headers,
      before: before?.models ?? [],
    }),
  );
  const owned = stack.move();
  return { headers, fetching, registry, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
