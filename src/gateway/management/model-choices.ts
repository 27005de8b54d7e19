import type { IncomingMessage } from "node:http";
import { byteText } from "../../api/byte-text.ts";
import { ApiError } from "../../api/errors.ts";
import type { ModelChoice, ModelChoices } from "../../api/management/model-choices-view.ts";
import type { HubModel } from "../../api/model-task.ts";
import { didYouMean, nearest } from "../../api/nearest.ts";
import { sizeFit } from "../../models/fit/size-fit.ts";
import { readTypedName, sameFamily, type TypedRepository } from "../../models/typed-name.ts";
import { catalogViews } from "./catalog-views.ts";
import type { ManagementContext } from "./context.ts";
import { askOperator } from "./model-task.ts";

/** The most listings at once, of all callers together: each is a request of the operator over the network. */
const mostListings = 8;
/** The number of choices that a message names. */
const mostNamed = 12;

type Client = Pick<IncomingMessage, "socket">;

/** The models that a name may stand for, as a person types it. */
export class TypedModels {
  readonly #context: ManagementContext;
  #listings = 0;

  constructor(context: ManagementContext) {
    this.#context = context;
  }

  /**
   * Reads the registry, the catalogue, and the list of a repository, for which it asks the operator: a gateway has no network.
   * Throws ApiError where the name stands for nothing.
   */
  async choices(text: string, client: Client): Promise<ModelChoices> {
    const context = this.#context;
    const name = text.trim();
    const record = context.index().models.get(name);
    if (record !== undefined) {
      const { files, quantization = null, sizeBytes = null } = record;
      const sources = record.fetch?.files.map(({ source }) => source) ?? [...files];
      const choice = { name, from: "registry", quantization, sources, size_bytes: sizeBytes, fit: null } as const;
      return listOf([{ ...choice, is_projector: false }]);
    }
    const catalog = await catalogChoices(context);
    const entry = catalog.find((choice) => choice.name === name);
    if (entry !== undefined) return listOf([entry]);
    const typed = readTypedName(name);
    switch (typed.kind) {
      case "unreadable":
        throw new ApiError("dispatch.invalid_request", {
          status: 422,
          message: typed.message,
          details: { path: ["model"], message: typed.message },
        });
      case "files":
        return listOf([addressed(name, typed.sources)]);
      case "repository":
        return await this.#inRepository(typed, client);
      case "name": {
        const { exact, family } = sameFamily(
          name,
          catalog.map((choice) => choice.name),
        );
        if (exact.length > 0) return listOf(catalog.filter((choice) => exact.includes(choice.name)));
        throw unknownName(context, name, family, catalog);
      }
      default:
        return typed satisfies never;
    }
  }

  async #inRepository(typed: TypedRepository, client: Client): Promise<ModelChoices> {
    const { owner, repo, revision, tag } = typed;
    const repository = `${owner}/${repo}`;
    if (this.#listings >= mostListings) {
      const message = `${this.#listings} repositories are being listed already: try again in a moment`;
      throw new ApiError("system.overloaded", { message, headers: { "retry-after": "5" } });
    }
    this.#listings += 1;
    try {
      const wanted = { kind: "hub", owner, repo, revision } as const;
      const { models, leftOut } = (await askOperator(this.#context, wanted, client, false))?.hub ?? none;
      const choices = hubChoices(this.#context, typed, models);
      if (!choices.some((choice) => !choice.is_projector)) {
        throw new ApiError("model.not_found", {
          message: `${repository} has no GGUF model: look for a repository whose name ends in -GGUF`,
        });
      }
      if (tag === undefined) return { ...listOf(choices), repository, left_out: leftOut };
      const tagged = choices.filter((choice) => hasTag(choice, tag));
      if (tagged.length > 0) return { ...listOf(tagged), repository, left_out: 0 };
      const message = `${repository} has no ${tag.slice(0, 100)}: it has ${named(choices, leftOut)}`;
      throw new ApiError("model.not_found", { message, details: { choices, left_out: leftOut } });
    } finally {
      this.#listings -= 1;
    }
  }
}

const none = { models: [], leftOut: 0 };

/** Throws ApiError, which lists the choices, unless there is one model among them. */
export function onlyChoice(text: string, { data, repository, left_out: leftOut }: ModelChoices): ModelChoice {
  const [first, second] = data.length === 1 ? data : data.filter((choice) => !choice.is_projector);
  if (first !== undefined && second === undefined) return first;
  const choices = data.filter((choice) => !choice.is_projector);
  const message = `${repository ?? text.slice(0, 200)} has ${choices.length + leftOut} models: ${named(choices, leftOut)}; choose one of them, such as ${first?.name ?? ""}`;
  throw new ApiError("dispatch.invalid_request", {
    status: 409,
    message,
    details: { path: ["model"], message: "stands for several models", choices: data, left_out: leftOut },
  });
}

function listOf(data: readonly ModelChoice[]): ModelChoices {
  return { object: "list", data: [...data], repository: null, left_out: 0 };
}

function named(choices: readonly ModelChoice[], leftOut: number): string {
  const models = choices.filter((choice) => !choice.is_projector);
  const each = models.slice(0, mostNamed).map(({ name, quantization, size_bytes: size }) => {
    const short = name.endsWith(`:${quantization ?? ""}`) ? (quantization ?? name) : name;
    return size === null ? short : `${short} (${byteText(size)})`;
  });
  const more = models.length + leftOut - each.length;
  return `${each.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function hasTag({ quantization, sources }: ModelChoice, tag: string): boolean {
  const wanted = tag.toLowerCase();
  if (quantization?.toLowerCase() === wanted) return true;
  return sources.some((source) =>
    source
      .toLowerCase()
      .replace(/\.gguf(?:@.*)?$/, "")
      .endsWith(`/${wanted}`),
  );
}

function hubChoices(
  { hardware }: ManagementContext,
  { owner, repo, revision }: TypedRepository,
  models: readonly HubModel[],
): ModelChoice[] {
  const facts = hardware.found()?.hardware;
  const at = revision === "main" ? "" : `@${revision}`;
  const count = (quantization: string | undefined): number =>
    models.filter((model) => model.quantization === quantization && model.isProjector !== true).length;
  return models.map(({ paths, quantization, sizeBytes, isProjector = false }) => {
    const isOnly = quantization !== undefined && !isProjector && count(quantization) === 1;
    // A path with an @ needs its revision: the text after the last @ is one.
    const sources = paths.map((path) => `hf://${owner}/${repo}/${path}${path.includes("@") ? `@${revision}` : at}`);
    const fit = facts === undefined ? undefined : sizeFit(sizeBytes, facts, facts.suggested["llama"]?.backend);
    return {
      name: isOnly ? `${owner}/${repo}:${quantization}${at}` : (sources[0] ?? ""),
      from: "hub",
      quantization: quantization ?? null,
      sources,
      size_bytes: sizeBytes,
      is_projector: isProjector,
      fit:
        fit === undefined || isProjector
          ? null
          : {
              verdict: fit.verdict,
              message: fit.message,
              need_bytes: fit.needBytes ?? null,
              budget_bytes: fit.budgetBytes ?? null,
            },
    };
  });
}

async function catalogChoices(context: ManagementContext): Promise<ModelChoice[]> {
  const specs = new Map((await context.catalog()).map(({ spec, metadata }) => [spec.ref ?? metadata.name, spec]));
  return (await catalogViews(context)).map(({ id, source, size_bytes: size, fit }) => ({
    name: id,
    from: "catalog",
    quantization: specs.get(id)?.quantization ?? null,
    sources: specs.get(id)?.files?.map((file) => file.source) ?? [source],
    size_bytes: size,
    is_projector: false,
    fit: { verdict: fit.verdict, message: fit.message, need_bytes: fit.need_bytes, budget_bytes: fit.budget_bytes },
  }));
}

function addressed(name: string, sources: readonly string[]): ModelChoice {
  const choice = {
    name,
    from: "address",
    quantization: null,
    size_bytes: null,
    is_projector: false,
    fit: null,
  } as const;
  return { ...choice, sources: [...sources] };
}

function unknownName(
  context: ManagementContext,
  name: string,
  family: readonly string[],
  catalog: readonly ModelChoice[],
): ApiError {
  const known = [...context.index().models.keys(), ...catalog.map((choice) => choice.name)];
  const near =
    family.length > 0 ? `; of that family the catalogue has ${family.join(", ")}` : didYouMean(nearest(name, known));
  const how = "pull a repository (owner/name), an address, or a model of `berth model catalog`";
  const message = `no model is called "${name.slice(0, 200)}"${near}: ${how}`;
  return new ApiError("model.not_found", { message, details: { suggestions: [...family] } });
}
