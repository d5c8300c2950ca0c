//! The table: its key, its rows, and what found no room.

use core::mem::MaybeUninit;
use core::ptr::null_mut;

use aya_ebpf::helpers::generated::bpf_get_current_comm;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{PerCpuArray, PerCpuHashMap};
use tracer_common::hist::{KEY_WORDS, MAX_VALS, Row, STACK_WORDS, fold, from};

use crate::globals::{HIST, config, read};
use crate::item;

/// Where a long key is put together.
#[map]
static KEY: PerCpuArray<[u64; KEY_WORDS]> = PerCpuArray::with_max_entries(1, 0);

/// Events whose key found no room.
#[map]
static DROPPED: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// A word of a key. Those that a trigger does not use are never written: clearing them costs more than all else.
type Word = MaybeUninit<u64>;

/// A table for each size of key. The loader sets the size of the one in use.
macro_rules! tables {
    ($($name:ident: $words:literal)*) => {
        $(#[map]
        static $name: PerCpuHashMap<[Word; $words], Row> = PerCpuHashMap::with_max_entries(1, 0);)*

        #[inline(always)]
        unsafe fn find(key: *const u64) -> *mut Row {
            let row = match config!(table_words) {
                // SAFETY: the key has as many words as the table's keys.
                $($words => $name.get_ptr_mut(unsafe { &*key.cast::<[Word; $words]>() }),)*
                _ => None,
            };
            row.unwrap_or(null_mut())
        }

        #[inline(always)]
        unsafe fn insert(key: *const u64, row: &Row) {
            match config!(table_words) {
                // SAFETY: as above.
                $($words => {
                    // That it is there already, or has no room, shows in the next look.
                    let _found_later = $name.insert(unsafe { &*key.cast::<[Word; $words]>() }, row, NOEXIST);
                })*
                _ => {}
            }
        }
    };
}

const NOEXIST: u64 = aya_ebpf::bindings::BPF_NOEXIST as u64;

tables! {
    TABLE_1: 1
    TABLE_2: 2
    TABLE_3: 3
    TABLE_4: 4
    TABLE_6: 6
    TABLE_24: 24
    TABLE_32: 32
    TABLE_34: 34
    TABLE_56: 56
    TABLE_72: 72
}

/// Counts the current event.
#[inline(always)]
pub fn add(ctx: *const u8) {
    let mut short = [Word::uninit(); STACK_WORDS];
    let key = if config!(table_words) as usize > STACK_WORDS {
        match KEY.get_ptr_mut(0) {
            Some(long) => long.cast::<u64>(),
            None => return,
        }
    } else {
        (&raw mut short).cast::<u64>()
    };
    // SAFETY: the key has room for what the configuration says.
    unsafe {
        put_key(ctx, key);
        let mut row = find(key);
        if row.is_null() {
            row = begin(key);
        }
        if !row.is_null() {
            update(ctx, row);
        }
    }
}

#[inline(always)]
unsafe fn put_key(ctx: *const u8, key: *mut u64) {
    // SAFETY: as add().
    unsafe {
        item::put(ctx, &HIST.keys[0], key);
        if config!(keys[1].from) != from::NONE {
            item::put(ctx, &HIST.keys[1], key);
            if config!(keys[2].from) != from::NONE {
                item::put(ctx, &HIST.keys[2], key);
            }
        }
        // What is between the key's end and that of the table's keys.
        let (from, to) = (config!(key_words), config!(table_words));
        if from != to {
            for i in 0..KEY_WORDS as u32 {
                if i >= from && i < to {
                    key.add(i as usize).write_volatile(0);
                }
            }
        }
    }
}

/// A row for a new key; another CPU may have made it meanwhile. Null: there is no room.
#[inline(never)]
unsafe fn begin(key: *const u64) -> *mut Row {
    let mut row = Row::NEW;
    // SAFETY: as add().
    unsafe {
        if config!(names) != 0 {
            bpf_get_current_comm((&raw mut row.comm).cast(), size_of_val(&row.comm) as u32);
        }
        insert(key, &row);
        let row = find(key);
        if row.is_null()
            && let Some(dropped) = DROPPED.get_ptr_mut(0)
        {
            // This CPU's value of our map; no other program runs here meanwhile.
            *dropped += 1;
        }
        row
    }
}

#[inline(always)]
unsafe fn update(ctx: *const u8, row: *mut Row) {
    // SAFETY: this CPU's value of our map; no program interrupts this one here.
    unsafe {
        let hits = (*row).hits;
        (*row).hits = hits + 1;
        for i in 0..MAX_VALS {
            if read(&HIST.vals[i].from) == from::NONE {
                break;
            }
            let value = item::number(ctx, &HIST.vals[i]);
            let at = &raw mut (*row).vals[i];
            let old = at.read();
            at.write(match read(&HIST.vals[i].fold) {
                fold::SUM => old.wrapping_add(value),
                // The first on this CPU has nothing to be compared with.
                _ if hits == 0 => value,
                fold::MIN => old.min(value),
                fold::MAX => old.max(value),
                fold::SIGNED_MIN => old.cast_signed().min(value.cast_signed()).cast_unsigned(),
                _ => old.cast_signed().max(value.cast_signed()).cast_unsigned(),
            });
        }
    }
}
