import type { ComponentType } from "preact";
import { PlaygroundPage } from "../playground/page.tsx";
import type { PageName } from "../segments.ts";
import { MachinePage } from "./machine.tsx";
import { ModelsPage } from "./models.tsx";
import { ProvidersPage } from "./providers.tsx";
import { RequestsPage } from "./requests.tsx";
import { SettingsPage } from "./settings.tsx";

/** The pages beside the overview and those of slots. A file of its own, which is loaded with the first of them. */
export const furtherPages = {
  models: ModelsPage,
  machine: MachinePage,
  providers: ProvidersPage,
  requests: RequestsPage,
  playground: PlaygroundPage,
  settings: SettingsPage,
} as const satisfies Readonly<Record<Exclude<PageName, "slots">, ComponentType<{ readonly part: string | undefined }>>>;

export type FurtherName = keyof typeof furtherPages;
