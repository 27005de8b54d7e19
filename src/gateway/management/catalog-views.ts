import type { CatalogEntry } from "../../api/catalog.ts";
import { catalogViewSchema, type CatalogView } from "../../api/management/views.ts";
import type { ModelRecord } from "../../api/model.ts";
import { hostFit } from "../../models/fit/host-fit.ts";
import { lastOfModel } from "./benchmark-views.ts";
import type { ManagementContext } from "./context.ts";
import { shapes } from "./slot-fit.ts";
import { viewFrom } from "./view-from.ts";

const entryOf = viewFrom(catalogViewSchema);

/** The curated models, each with a verdict for this machine. */
export async function catalogViews(context: ManagementContext): Promise<CatalogView[]> {
  const { models } = context.index();
  const views: CatalogView[] = [];
  for (const entry of await context.catalog()) views.push(await catalogView(entry, models.get(refOf(entry)), context));
  return views;
}

function refOf({ spec, metadata }: CatalogEntry): string {
  return spec.ref ?? metadata.name;
}

async function catalogView(
  entry: CatalogEntry,
  record: ModelRecord | undefined,
  { hardware, index }: ManagementContext,
): Promise<CatalogView> {
  const { spec, catalog } = entry;
  const isHere = record?.state === "available" && record.path !== undefined;
  const shape = isHere ? await shapes.of(record.files, record.fingerprint ?? "") : undefined;
  return entryOf({
    ...catalog,
    id: refOf(entry),
    sizeBytes: (isHere ? record.sizeBytes : undefined) ?? spec.sizeBytes ?? catalog.aboutBytes,
    capabilities: spec.capabilities ?? [],
    license: spec.license ?? "",
    licenseUrl: spec.licenseUrl ?? "",
    source: spec.source ?? spec.files?.[0]?.source ?? "",
    sha256: spec.sha256,
    lastBenchmark: lastOfModel(index().slots.values(), refOf(entry)),
    isHere,
    fit: fitOf(entry, shape, hardware.found()?.hardware),
  });
}

function fitOf(
  entry: CatalogEntry,
  shape: Parameters<typeof hostFit>[1],
  hardware: NonNullable<ReturnType<ManagementContext["hardware"]["found"]>>["hardware"] | undefined,
): Parameters<typeof entryOf>[0]["fit"] {
  const probe = "berth probe -o wide";
  if (hardware === undefined) {
    const message = "no operator has probed this machine yet";
    return { verdict: "unknown", message, inputs: [], check: probe };
  }
  const { engine } = entry.catalog;
  const found = hostFit(entry, shape, hardware, hardware.suggested[engine]?.backend);
  return {
    ...found,
    check: shape === undefined ? probe : `berth slot show SLOT, once a slot holds it; the machine: ${probe}`,
  };
}
