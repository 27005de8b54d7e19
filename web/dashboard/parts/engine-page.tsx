import type { JSX } from "preact";
import { call } from "../../shared/api.ts";
import { useLoaded } from "./load.tsx";

/** Leads to the engine's own page where SVC_ENGINE_PAGES names the slot; nothing for whoever may not see that. */
export function EnginePageLink({ slot }: { readonly slot: string }): JSX.Element | null {
  const [settings] = useLoaded(async () => (await call("GET /api/config")).settings, [slot]);
  const named = settings.state === "here" ? settings.value["engine_pages"]?.value : undefined;
  if (!Array.isArray(named) || !named.includes(slot)) return null;
  return (
    <a href={`upstream/${slot}/`} target="_blank" rel="noopener noreferrer">
      The engine's own page
    </a>
  );
}
