import { signal } from "@preact/signals";
import { LayoutGrid, Rows3 } from "lucide";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { SlotView } from "../../../src/api/management/views.ts";
import { Icon } from "../../shared/icon.tsx";
import { placesOf } from "../colours.ts";
import { inOrder, isSetUp } from "../slot-order.ts";
import { SlotCard } from "./slot-card.tsx";
import { SlotTable } from "./slot-table.tsx";
import { slotPath } from "../router.ts";

/** More slots than these are a table, unless a person has chosen. */
const mostCards = 9;
/** Slots that are drawn at once; more of them make a page slow that nobody reads to its end. */
const pageSlots = 100;
const storageKey = "berth-slots-as";

type View = "cards" | "table";
const chosen = signal<View | undefined>(keptView());

/** All slots: those that need a person first, then those that answer; those that nobody has set up in one line below. */
export function SlotList({ all }: { readonly all: readonly SlotView[] }): JSX.Element {
  const [search, setSearch] = useState("");
  const [shown, setShown] = useState(pageSlots);
  const setUp = all.filter(isSetUp);
  const words = search.toLowerCase().split(/\s+/);
  const found = inOrder(setUp).filter(({ name, state, model, engine, aliases }) => {
    const text = `${name} ${aliases.join(" ")} ${state} ${model ?? ""} ${engine}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const places = placesOf(all.map(({ name }) => name));
  const view = chosen.value ?? (setUp.length > mostCards ? "table" : "cards");
  return (
    <section aria-label="Slots">
      <div class="chart-head">
        <h2>Slots</h2>
        <div class="row">
          {(setUp.length > mostCards || search !== "") && (
            <>
              <label>
                <span class="unseen">Search</span>
                <input
                  type="search"
                  placeholder="Search slots"
                  value={search}
                  onInput={(event) => setSearch(event.currentTarget.value)}
                />
              </label>
              <span role="status">
                {found.length} of {setUp.length}
              </span>
            </>
          )}
          <ViewSwitch view={view} />
        </div>
      </div>
      {view === "cards" ? (
        <ul class="cards">
          {found.slice(0, shown).map((slot) => (
            <SlotCard key={slot.name} slot={slot} colour={places.get(slot.name)} />
          ))}
        </ul>
      ) : (
        <SlotTable slots={found.slice(0, shown)} />
      )}
      {found.length > shown && (
        <p>
          <button type="button" onClick={() => setShown(shown + pageSlots)}>
            Show {Math.min(pageSlots, found.length - shown)} more
          </button>
        </p>
      )}
      <NotSetUp slots={all.filter((slot) => !isSetUp(slot))} />
    </section>
  );
}

/** Built-in slots without a manifest, in one line. */
export function NotSetUp({ slots }: { readonly slots: readonly SlotView[] }): JSX.Element | null {
  if (slots.length === 0) return null;
  return (
    <p class="quiet">
      Not set up:{" "}
      {slots.map(({ name }, at) => (
        <>
          {at > 0 && ", "}
          <a key={name} href={slotPath(name)}>
            {name}
          </a>
        </>
      ))}
      . A built-in slot does nothing until it is given a model.
    </p>
  );
}

function ViewSwitch({ view }: { readonly view: View }): JSX.Element {
  const choose = (next: View) => () => {
    chosen.value = next;
    try {
      localStorage.setItem(storageKey, next);
    } catch {
      // Kept until the page is left.
    }
  };
  return (
    <span class="segmented" role="group" aria-label="Show slots as">
      <button type="button" aria-pressed={view === "cards"} aria-label="Cards" onClick={choose("cards")}>
        <Icon of={LayoutGrid} />
      </button>
      <button type="button" aria-pressed={view === "table"} aria-label="Table" onClick={choose("table")}>
        <Icon of={Rows3} />
      </button>
    </span>
  );
}

function keptView(): View | undefined {
  try {
    const kept = localStorage.getItem(storageKey);
    return kept === "cards" || kept === "table" ? kept : undefined;
  } catch {
    return undefined;
  }
}
