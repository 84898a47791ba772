//! Transfers between accounts by several threads. Run it with `cargo run --example bank`.
//!
//! A transfer reads two balances and writes both; an audit reads all of them. Transactions keep the
//! sum exact, no account goes below zero, and an audit never sees half a transfer.

use siltdb::{Db, Error, ErrorKind, Isolation, Read, Result, Slice, Transaction};
use std::thread;

const ACCOUNTS: u32 = 8;
const OPENING_BALANCE: u64 = 100;
const THREADS: u32 = 4;
const TRANSFERS: u32 = 200;

fn account(number: u32) -> String {
    format!("account/{number:04}")
}

fn amount(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into().map_err(|_| Error::corruption("no balance of eight bytes"))?;
    Ok(u64::from_le_bytes(bytes))
}

fn balance(source: &impl Read, account: &str) -> Result<u64> {
    source.get(account)?.map_or(Ok(0), |value| amount(&value))
}

/// The outcome of a transfer.
#[derive(Debug, PartialEq, Eq)]
enum Transfer {
    Done,
    NotCovered,
}

/// Moves money, if the balance covers it.
fn transfer(transaction: &Transaction, from: &str, to: &str, money: u64) -> Result<Transfer> {
    let Some(rest) = balance(transaction, from)?.checked_sub(money) else {
        return Ok(Transfer::NotCovered);
    };
    transaction.put(from, rest.to_le_bytes())?;
    // The second read sees the first write, so an account may also pay itself.
    let sum = balance(transaction, to)? + money;
    transaction.put(to, sum.to_le_bytes())?;
    Ok(Transfer::Done)
}

/// Runs a transaction, and repeats it after a conflict.
fn retry<T>(db: &Db, run: impl Fn(&Transaction) -> Result<T>) -> Result<T> {
    let transaction = db.begin(Isolation::Serializable);
    loop {
        let result = run(&transaction)?;
        match transaction.commit() {
            Ok(_) => return Ok(result),
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
        }
        transaction.reset();
    }
}

/// The sum of all accounts. It reads one consistent state, so it never conflicts.
fn audit(db: &Db) -> Result<u64> {
    let all = db.begin(Isolation::Serializable);
    let entry = |entry: Result<(Slice, Slice)>| amount(&entry?.1);
    all.prefix("account/")?.map(entry).sum()
}

/// The work of one clerk. Returns the number of transfers that were not covered.
fn clerk(db: &Db, nth: u32) -> Result<u32> {
    let mut refused = 0;
    for step in 0..TRANSFERS {
        let from = account((nth + step) % ACCOUNTS);
        let to = account((nth + step * 3 + 1) % ACCOUNTS);
        let money = u64::from(step * 7 % 60);
        let done = retry(db, |transaction| transfer(transaction, &from, &to, money))?;
        refused += u32::from(done == Transfer::NotCovered);
        if step % 50 == 0 {
            assert_eq!(audit(db)?, u64::from(ACCOUNTS) * OPENING_BALANCE);
        }
    }
    Ok(refused)
}

/// Two withdrawals each read both accounts and take from a different one. At `Serializable` the
/// second is refused, because the values that it read have changed.
fn withdrawals_side_by_side(db: &Db) -> Result<()> {
    db.put("joint/a", 60_u64.to_le_bytes())?;
    db.put("joint/b", 60_u64.to_le_bytes())?;
    let withdrawals = [("joint/a", 50_u64), ("joint/b", 50)].map(|(from, money)| {
        let transaction = db.begin(Isolation::Serializable);
        let rest = balance(&transaction, from)? - money;
        let sum = balance(&transaction, "joint/a")? + balance(&transaction, "joint/b")? - money;
        assert!(sum >= 50, "the joint account must keep 50");
        transaction.put(from, rest.to_le_bytes())?;
        Ok::<_, Error>(transaction)
    });
    let [first, second] = withdrawals;
    first?.commit()?;
    let error = second?.commit().expect_err("both would leave 20");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    println!("the second withdrawal is refused: {error}");
    Ok(())
}

fn main() -> Result<()> {
    let db = Db::temporary()?;
    for number in 0..ACCOUNTS {
        db.put(account(number), OPENING_BALANCE.to_le_bytes())?;
    }
    let refused = thread::scope(|scope| {
        let clerks: Vec<_> = (0..THREADS)
            .map(|nth| {
                scope.spawn({
                    let db = &db;
                    move || clerk(db, nth)
                })
            })
            .collect();
        let join = |clerk: thread::ScopedJoinHandle<'_, Result<u32>>| {
            clerk.join().expect("a clerk does not panic")
        };
        clerks.into_iter().map(join).sum::<Result<u32>>()
    })?;
    let sum = audit(&db)?;
    assert_eq!(sum, u64::from(ACCOUNTS) * OPENING_BALANCE);
    println!("{} transfers, {refused} not covered, the sum is {sum}", THREADS * TRANSFERS);
    withdrawals_side_by_side(&db)
}
